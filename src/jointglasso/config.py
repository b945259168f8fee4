"""Tuning constants of the solvers and the engine: size thresholds, frequency of gap checks, iteration limits.

They affect running time, and results within the tolerance only: convergence is decided by the duality gap. They were
chosen by timing on the data of docs/performance.md; `benchmarks/tuning.py` halves and doubles each of them, on problems
of up to 600 variables, in which those of larger groups have no effect (benchmarks/logs/tuning.log). Modules read them
as ``config.NAME`` at run time, so that one assignment changes a constant everywhere. The constants of compiled code are
in `kernels/`, because the cache of compiled code is keyed by those files; numbers of a formula, a file format or a
safeguard are in the module that uses them.
"""

# --- Sizes of blocks ---

#: SMALL: up to this size compiled products are faster than BLAS, groups are swept again rather than solved by Newton's
#: method, and never count as dense. LARGE: groups above it are swept one by one in batches of columns instead of in
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
PAIR_BATCH = 20_000

#: Multiplications per task of a scan on remote workers, about a second on one core; a scan of fewer than five tasks
#: is not distributed, because workers must receive the samples first.
REMOTE_SCAN_COST = 4e10

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

# --- Which method (solvers/auto.py) ---

#: Maximal sweeps over small groups per call; the same for penalties that need steps on faces (`uses_faces`), and half
#: of the maximal sweeps over a large group.
SMALL_SWEEPS, FUSION_SWEEPS = 25, 40

#: Target gaps of successive rounds of sweeps over small groups, in units of the gap limit.
REFINE_FACTORS = (1.0, 1e-2, 1e-5)

#: A group is dense if this fraction of its pairs is strong.
DENSE_FRACTION = 0.8

#: Work of Hessian-vector products, in cubed block sizes, at which Newton's method is replaced by ADMM (about half of
#: ADMM's work).
ADMM_WORK = 1200.0

# --- Column sweeps over large groups (solvers/column_ascent.py, solvers/big_sweeps.py) ---

#: Tolerance of a column subproblem, relative to the penalties: upper bound, and factor of the change of the last sweep.
#: With tolerances ten times as large, three times as many sweeps are needed.
COLUMN_TOLERANCE = (1e-2, 0.1)

#: Smallest and largest number of columns of a batch.
MIN_BATCH_COLUMNS, MAX_BATCH_COLUMNS = 32, 256

#: Multiplications per block entry in a sweep; multiplications of a factorisation in the time of one of a sweep.
SWEEP_WORK, FACTOR_WORK = 10.0, 15.0

#: Fraction of the gap estimate at the last gap check at which the next one is made.
NEXT_GAP_CHECK = 0.7

#: Rows of covariances per read; entries of a class per row block of the dual point.
ROWS_AT_ONCE, DUAL_ROWS = 256, 2e6

# --- Newton's method (solvers/newton.py, blocks/support.py) ---

#: Maximal faces per direction; relative decrease of the model that a further face must bring; fraction of the entries
#: that must have left a face for the next one to be tried.
NEWTON_FACES, FACE_GAIN, MIN_CROSSINGS = 6, 0.02, 2e-3

#: Maximal conjugate gradient steps per face; fraction of the squared residual at which they end far from the solution.
FACE_STEPS, FORCING = 200, 1e-3

#: Pairs that may enter the working set in an iteration, in units of the pairs that are in it.
WORKING_SET_GROWTH = 8.0

#: Inverse density of a support from which on dense Hessian products take less time.
DENSE_SUPPORT = 4.0
