"""Tuning constants of the solvers and the engine: size thresholds, frequency of gap checks, iteration limits.

They affect running time, not results: convergence is decided by the duality gap alone. They were chosen by timing on
the data of docs/performance.md; `benchmarks/tuning.py` halves and doubles each of them and reports the cost. Modules
read them as ``config.NAME`` at run time, so that one assignment changes a constant everywhere. The constants of
compiled code are in `kernels/`, because the cache of compiled code is keyed by those files.
"""

# --- Threads ---

#: Block size below which multi-threaded BLAS is slower than one thread per block, because of synchronisation, above
#: all on a shared machine.
MIN_BLOCK_FOR_BLAS_THREADS = 1500

#: Array elements above which a second thread pays: waking it takes as long as processing a hundred thousand.
MIN_ENTRIES_FOR_THREADS = 1e5

#: Thresholds above which a second thread pays: sum of fourth powers of block sizes over small groups; pairs in closed
#: form; block size in ADMM.
MIN_COST_FOR_THREADS, MIN_PAIRS_FOR_THREADS, ADMM_THREADED = 1e6, 1000, 100

# --- Screening ---

#: Rows and columns of a covariance tile: small enough for the work arrays to stay in cache.
TILE = 512

#: Pairs per batch of exact covariances, small enough for the gathered samples to stay in cache.
CANDIDATES = 20_000

#: Multiplications above which a scan is distributed to remote workers, which must receive the samples first; and
#: multiplications per task, about a second on one core.
MIN_SCAN_FOR_REMOTE, REMOTE_SCAN_COST = 2e11, 4e10

# --- Tasks ---

#: Largest block size of groups that are solved in batches (and always with stored blocks).
BATCHED_BLOCK = 400

#: Limits of a batch: block entries (about a hundred bytes each) and work in cubed block sizes, typically a tenth of a
#: second, which is also the delay of an interrupt. With batches five times as large, one of two workers was idle for
#: half of the time.
BATCH_ENTRIES, BATCH_COST = 2**22, 2e6

#: Block size above which a group is solved without a stored `BlockSystem` even if that fits into memory: 1,055
#: variables take a third longer so, 2,000 as long, 2,352 three fifths of the time, 4,100 a third. Peak bytes per entry:
#: W and S in single precision, one matrix in double precision.
BIG_BLOCK, BIG_BYTES = 1500, 16.0

#: Solved blocks are cached up to this total number of entries, at this many bytes per entry; an entry of a group
#: without stored blocks counts as this fraction of one.
CACHED_ENTRIES, CACHED_BYTES, CACHED_FRACTION_BIG = 2e7, 50.0, 0.05

#: Bytes below which the memory check is skipped; it costs as much as a small solve.
MEMORY_CHECK_BYTES = 2.0**26

#: Time to solve a group, in factorizations with inversion of its blocks (docs/performance.md); and that of a densely
#: correlated group on one core, in factorizations of its blocks over their sizes: the columns of its solution have
#: fifty to a hundred non-zeros independently of its size.
FACTORIZATIONS, DENSE_FACTORIZATIONS = 60.0, 8e4

#: Tasks submitted at a time to an executor with an unknown number of workers; seconds between two checks for a stop
#: request, between two counts of the workers of a cluster, and between two checkpoints of a long task.
MAX_TASKS_IN_FLIGHT, POLL_SECONDS, RECOUNT_SECONDS, SNAPSHOT_SECONDS = 64, 0.2, 5.0, 30.0

# --- Which method (solvers/auto.py, solvers/sweeping.py) ---

#: Largest block size of groups solved by column sweeps in one compiled call (small groups). With 512, groups of 300 to
#: 450 variables with one common factor take 0.65 to 0.8 of the time, genes of TCGA 1.05 to 1.7 of it.
SWEPT_BLOCK = 256

#: Sweeps over small groups per call; the same for fusion penalties, which cost more per pair; maximal sweeps over a
#: large group for these; consecutive gap checks without improvement after which they end.
FEW_SWEEPS, COMPARING_SWEEPS, COMPARING_MOST, IDLE_GAP_CHECKS = 25, 40, 80, 4

#: Target gaps of successive rounds of sweeps over small groups, in units of the gap limit.
REFINE_FACTORS = (1.0, 1e-2, 1e-5)

#: Target gap of the first round for fusion penalties, in units of the gap limit, and the smallest relative target: a
#: few more sweeps cost less than the Newton step that certifies a dynamic screen (300 connected variables in three
#: classes: 0.75 of the time).
FIRST_REFINE_FACTOR, FIRST_REFINE_GAP = 1e-2, 1e-8

#: Relative change of W in a sweep at the level of single precision rounding: the sweeps have converged.
ROUNDING_CHANGE = 2e-6

#: Gap after a full round of sweeps, in units of the gap limit, above which a group is not swept again.
FAR_GAP = 100.0

#: Largest block size of groups that are swept again rather than solved by Newton's method; maximal Newton steps.
TINY_BLOCK, TINY_STEPS = 8, 6

#: Maximal number of outer iterations over the diagonal of W for a fused diagonal.
DIAGONALS = 8

#: A group is dense if its largest block has at least this size and this fraction of its pairs is strong.
DENSE_BLOCK, DENSE_FRACTION = 24, 0.8

#: Work of Hessian-vector products, in cubed block sizes, at which Newton's method is replaced by ADMM (about half of
#: ADMM's work); maximal rounds of ADMM, more than one only where the gap limits decreased with the objective.
ADMM_WORK, ADMM_ROUNDS = 1200.0, 5

#: Relative gap above which a failure of Newton's method is not attributed to rounding.
ROUNDING_GAP = 1e-10

# --- Column sweeps over large groups (solvers/column_ascent.py, solvers/big_sweeps.py) ---

#: Tolerance of a column subproblem, relative to the penalties: upper bound, and factor of the change of the last sweep.
#: With tolerances ten times as large, three times as many sweeps are needed.
COLUMN_PRECISION = (1e-2, 0.1)

#: Expected relative change of W in the first sweep from a warm start.
WARM_CHANGE = 0.03

#: Columns per batch: number of columns over the first value, between the second and the third.
BATCH_PART, BATCH_FEWEST, BATCH_MOST = 40, 32, 256

#: Ratio of the number of batches to that of the last colouring above which the variables are coloured again.
RECOLOUR = 1.5

#: Sweeps in batches have stalled if the estimated gap exceeds this fraction of the previous one while the change of W
#: is below the second value (conflicting pairs inside a batch).
STALLED, NEAR_CHANGE = 0.5, 1e-3

#: Multiplications per block entry in a sweep; multiplications of a factorisation in the time of one of a sweep.
SWEEP_WORK, FACTOR_WORK = 10.0, 15.0

#: Fraction of the gap estimate at the last gap check at which the next one is made; fraction of the gap limit at which
#: the first one is made for fusion penalties.
NEXT_GAP_CHECK, FIRST_GAP_CHECK = 0.7, 0.5

#: Rows of covariances per read; entries of a class per row block of the dual point, and the smallest number of row
#: blocks.
ROWS_AT_ONCE, DUAL_ROWS, DUAL_PIECES = 256, 2e6, 32

# --- Newton's method (solvers/newton.py, blocks/support.py) ---

#: Maximal faces per direction; relative decrease of the model that a further face must bring; fraction of entries that
#: may leave a face before the next one is tried.
NEWTON_FACES, FACE_GAIN, FEW_CROSSINGS = 6, 0.02, 2e-3

#: Maximal conjugate gradient steps per face; fraction of the squared residual at which they end far from the solution.
FACE_STEPS, FORCING = 200, 1e-2

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

# --- Other methods ---

#: Maximal halvings of a proximal gradient step; beyond, rounding prevents progress.
HALVINGS = 60

#: ADMM with latent variables: iterations between two gap checks, over-relaxation, and the ratio of the residuals above
#: which rho is adapted.
LATENT_GAP_CHECK, LATENT_RELAXATION, LATENT_BALANCE = 10, 1.6, 3.0

# --- Gaps and proofs (duality.py, engine/certify.py, engine/recheck.py) ---

#: Norm of R Theta below which its square bounds the gap to within a percent; above it a second factorisation is used.
#: Blocks above the third value, where that is expensive, use the second value, with a bound to within a sixth.
NEAR, NEAR_IF_BIG, NEAR_BIG = 0.01, 0.2, 256

#: Time of a multiplication in a dense product relative to one in a sparse product.
DENSE_ADVANTAGE = 0.01

#: Largest block size multiplied by compiled code: always, and if R is sparse.
SMALL_PRODUCT, MEDIUM_PRODUCT = 16, 512

#: Block entries up to which a final attempt at a finite gap is made.
SAFE_ENTRIES = 2e6

#: Attempts to certify a dynamic screen with a more accurate solution, as (iterations, factor of the gap); one nearly
#: always suffices. Up to this many groups, with less than this fraction of all entries, are refined one by one.
REFINEMENTS, MAX_GROUPS_ONE_BY_ONE, SMALL_FRACTION = ((1, 1e-4), (100, 1e-7), (100, 1e-7)), 4, 0.25
