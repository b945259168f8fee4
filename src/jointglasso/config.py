"""Tuning constants of the solvers and the engine: size thresholds, frequency of gap checks, iteration limits.

They affect running time, not results: convergence is decided by the duality gap alone. They were chosen by timing on
the data of docs/performance.md; `benchmarks/tuning.py` halves and doubles each of them and reports the cost. Modules
read them as ``config.NAME`` at run time, so that one assignment changes a constant everywhere. The constants of
compiled code are in `kernels/`, because the cache of compiled code is keyed by those files; numbers of a formula, a
file format or a safeguard are in the module that uses them.
"""

# --- Sizes of blocks ---

#: SMALL: compiled products are faster than BLAS up to this size, groups are swept again rather than solved by Newton's
#: method, and no group counts as dense. LARGE: groups above it are swept one by one in batches of columns instead of in
#: one compiled call; with 512, groups of 300 to 450 variables with one common factor take 0.65 to 0.8 of the time,
#: genes of TCGA 1.05 to 1.7 of it. HUGE: groups from this size on are solved without a stored `BlockSystem` even if
#: that fits into memory (1,055 variables take a third longer so, 2,000 as long, 2,352 three fifths of the time, 4,100 a
#: third), and multi-threaded BLAS is faster than one thread per block.
SMALL, LARGE, HUGE = 16, 256, 1500

# --- Threads ---

#: Array elements, and sum of fourth powers of block sizes over small groups, above which a second thread pays: waking
#: it takes as long as processing a hundred thousand elements.
MIN_ENTRIES_FOR_THREADS, MIN_COST_FOR_THREADS = 1e5, 1e6

# --- Screening ---

#: Rows and columns of a covariance tile: small enough for the work arrays to stay in cache.
TILE = 512

#: Pairs per batch of exact covariances, small enough for the gathered samples to stay in cache.
CANDIDATES = 20_000

#: Multiplications above which a scan is distributed to remote workers, which must receive the samples first; and
#: multiplications per task, about a second on one core.
MIN_SCAN_FOR_REMOTE, REMOTE_SCAN_COST = 2e11, 4e10

# --- Sparse storage (blocks/sparse_factor.py, engine/solve_sparse_task.py) ---

#: Block size from which sparse storage is considered, and pairs outside the dual ball per variable up to which it is.
SPARSE_BLOCK, SPARSE_PAIRS = 1500, 20.0

#: Slack of the scan for pairs that may violate the optimality conditions, relative to the radius of a box inside the
#: dual ball.
SCAN_SLACK = 0.15

# --- Tasks ---

#: Largest block size of groups that are solved in batches (and always with stored blocks).
BATCHED_BLOCK = 400

#: Limits of a batch: block entries (about a hundred bytes each) and work in cubed block sizes, typically a tenth of a
#: second, which is also the delay of an interrupt. With batches five times as large, one of two workers was idle for
#: half of the time.
BATCH_ENTRIES, BATCH_COST = 2**22, 2e6

#: Solved blocks are cached up to this many bytes in all.
CACHED_BYTES = 1e9

#: Bytes below which the memory check is skipped; it costs as much as a small solve.
MEMORY_CHECK_BYTES = 2.0**26

# --- Which method (solvers/auto.py) ---

#: Sweeps over small groups per call; the same for fusion penalties, which cost more per pair; maximal sweeps over a
#: large group for these.
FEW_SWEEPS, COMPARING_SWEEPS, COMPARING_MOST = 25, 40, 80

#: Target gaps of successive rounds of sweeps over small groups, in units of the gap limit.
REFINE_FACTORS = (1.0, 1e-2, 1e-5)

#: Relative change of W in a sweep at the level of single precision rounding: the sweeps have converged.
ROUNDING_CHANGE = 2e-6

#: A group is dense if this fraction of its pairs is strong.
DENSE_FRACTION = 0.8

#: Work of Hessian-vector products, in cubed block sizes, at which Newton's method is replaced by ADMM (about half of
#: ADMM's work).
ADMM_WORK = 1200.0

# --- Column sweeps over large groups (solvers/column_ascent.py, solvers/big_sweeps.py) ---

#: Tolerance of a column subproblem, relative to the penalties: upper bound, and factor of the change of the last sweep.
#: With tolerances ten times as large, three times as many sweeps are needed.
COLUMN_PRECISION = (1e-2, 0.1)

#: Expected relative change of W in the first sweep from a warm start.
WARM_CHANGE = 0.03

#: Smallest and largest number of columns of a batch.
BATCH_FEWEST, BATCH_MOST = 32, 256

#: Sweeps in batches have stalled if the estimated gap exceeds this fraction of the previous one while the change of W
#: is below the second value (conflicting pairs inside a batch).
STALLED, NEAR_CHANGE = 0.5, 1e-3

#: Multiplications per block entry in a sweep; multiplications of a factorisation in the time of one of a sweep.
SWEEP_WORK, FACTOR_WORK = 10.0, 15.0

#: Fraction of the gap estimate at the last gap check at which the next one is made; fraction of the gap limit at which
#: the first one is made for fusion penalties.
NEXT_GAP_CHECK, FIRST_GAP_CHECK = 0.7, 0.5

#: Rows of covariances per read; entries of a class per row block of the dual point.
ROWS_AT_ONCE, DUAL_ROWS = 256, 2e6

# --- Newton's method (solvers/newton.py, blocks/support.py) ---

#: Maximal faces per direction; relative decrease of the model that a further face must bring; fraction of entries that
#: may leave a face before the next one is tried.
NEWTON_FACES, FACE_GAIN, FEW_CROSSINGS = 6, 0.02, 2e-3

#: Maximal conjugate gradient steps per face; fraction of the squared residual at which they end far from the solution.
FACE_STEPS, FORCING = 200, 1e-3

#: Pairs that may enter the working set in an iteration, in units of the pairs that are in it.
GROWTH = 8.0

#: Armijo constant of the line search, and its shortest step.
ARMIJO, SHORTEST_STEP = 1e-3, 1e-8

#: Iterations without progress after which a group stops at rounding, and the largest damping.
IDLE_STEPS, MAX_DAMPING = 3, 1e6

#: The gap is checked once the predicted decrease is at most this multiple of its limit.
GAP_CHECK_AFTER = 100.0

#: Block size up to which Hessian products are in double precision, and inverse density of a support from which on dense
#: products take less time.
DOUBLE_PRECISION_BLOCK, DENSE_SUPPORT = 128, 4.0

#: Norm of R Theta below which its square bounds the gap of a block above LARGE to within a sixth.
NEAR_IF_BIG = 0.2
