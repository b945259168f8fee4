"""The numbers that steer the solvers and the engine: at which size a method changes, when one looks, when one gives up.

None of them changes what is computed, only how soon: every answer is judged by its gap. They were chosen by timing on
the data of docs/performance.md; `benchmarks/tuning.py` halves and doubles each of them and tells what that costs.
They are read where they are used, as ``tuning.NAME``, so that one place changes them all. What compiled code is steered
by stands in `kernels/`, beside the code: the cache of compiled code is keyed by those files.
"""

# --- Threads ---

#: Below this block size the threads of BLAS cost more in waiting for each other than they gain, above all on a machine
#: that is shared; our own threads, one block each, do better.
WORTH_BLAS_THREADS = 1500

#: Numbers to be looked at from which on a second thread pays: waking it takes as long as a hundred thousand of them.
WORTH_SHARING = 1e5

#: From where on a second thread pays: fourth powers of block sizes summed over small groups; pairs in closed form; the
#: size of a component of a working set; the size of a block of ADMM.
WORTH_THREADS_OF_GROUPS, WORTH_THREADS_OF_PAIRS, WORTH_A_THREAD, ADMM_THREADED = 1e6, 1000, 64, 100

# --- Screening ---

#: Rows and columns of a tile of covariances: small enough that the scratch arrays stay in cache.
TILE = 512

#: Pairs whose exact covariances are computed together, so that what is gathered for them stays in cache.
CANDIDATES = 20_000

#: Multiplications from which a scan gains by workers elsewhere, to which the samples must go first; and those of one
#: piece of it, about a second of a core.
WORTH_SENDING, PIECE_ELSEWHERE = 2e11, 4e10

# --- Pieces of work ---

#: Groups whose biggest block has at most this many variables are given out in batches, and never too big for blocks.
BATCHED_BLOCK = 400

#: A batch holds at most this many entries of blocks, some hundred bytes each, and not more work than this, in cubed
#: block sizes: a tenth of a second as a rule. That is what an interrupt can cost, and what a worker gets at once.
#: Batches of five times as much left one of two workers without work for half of the time.
BATCH_ENTRIES, BATCH_COST = 2**22, 2e6

#: Size of a block from which a group is solved without blocks even where these fit: 1,055 variables take a third longer
#: so, 2,000 as long, 2,352 three fifths of the time, 4,100 a third. Its bytes for each entry at most: W and covariances
#: in single precision, one matrix in double precision.
BIG_BLOCK, BIG_BYTES = 1500, 16.0

#: Solved blocks are kept at hand, in case they are needed again, while they have no more entries than this, at so many
#: bytes each; an entry of a group without blocks takes this part of one in blocks.
KEPT_ENTRIES, KEPT_BYTES, KEPT_OF_BIG = 2e7, 50.0, 0.05

#: Bytes that are taken without a look at what there is: the look takes as long as a small solve.
NO_QUESTION = 2.0**26

#: Time to solve a group, in factorizations with inversion of its blocks (docs/performance.md); and one that is
#: correlated throughout, on one core, in factorizations of its blocks times their sizes: the columns of its solution
#: have some fifty to a hundred non-zeros whatever its size.
FACTORIZATIONS, DENSE_FACTORIZATIONS = 60.0, 8e4

#: Bytes of work that may be on its way to workers at a time, over what keeps two items busy; seconds between two looks
#: for a wish to stop; seconds between two snapshots of work that takes long.
ON_THE_WAY, LOOK_SECONDS, SNAPSHOT_SECONDS = 2**30, 0.2, 30.0

#: Seconds between two looks whether workers that send nothing do anything.
IDLE_SECONDS = 10.0

#: Seconds of work that are worth a task elsewhere, which costs up to ten milliseconds; and bytes up to which what
#: travels is pickled in one piece, since each of its arrays would be a message of its own to Dask.
TASK_SECONDS, PACKED_BYTES = 0.1, 2**20

# --- Which method (solvers/auto.py, solvers/sweeping.py) ---

#: Groups of blocks up to this size are swept over with all of their matrices at hand. Were it 512, groups of 300 to 450
#: variables with one factor through them would take 0.65 to 0.8 of the time, genes of TCGA 1.05 to 1.7 of it.
SWEPT_BLOCK = 256

#: Sweeps over small groups in one go, and where classes are compared, which costs more for each pair; over a big group
#: there in all; looks at it without a gain after which it is left.
FEW_SWEEPS, COMPARING_SWEEPS, COMPARING_MOST, IDLE_LOOKS = 25, 40, 80, 4

#: The gap at which sweeps over small groups end, in units of the one allowed: first, and where that was not enough.
CLOSER = (1.0, 1e-2, 1e-5)

#: The same for the first sweeps where classes are compared, and the relative gap beyond which they do not go: a few
#: more of them cost less than the step of Newton's method that proves the cuts of a dynamic screen (300 connected
#: variables in three classes: 0.75 of the time).
AHEAD, AHEAD_GAP = 1e-2, 1e-8

#: Change of W in a sweep, in single precision, that is hardly more than rounding: more sweeps change nothing.
SETTLED = 2e-6

#: Gap of a group, in units of the one allowed, that many sweeps have left and more will not bring down.
FAR_GAP = 100.0

#: Groups without a block beyond this size are swept over again rather than left to Newton's method; most steps of it.
TINY_BLOCK, TINY_STEPS = 8, 6

#: Diagonals that are given one after another where those of classes are compared.
DIAGONALS = 8

#: Groups with a block of at least this size, and at least this share of strong pairs, count as correlated throughout.
DENSE_BLOCK, DENSE_SHARE = 24, 0.8

#: Work of Newton's products, in cubed block sizes, at which ADMM would have been half done; rounds of it: one as a
#: rule, more only where the objective fell so far in size that the limits did, too.
ADMM_WORK, ADMM_ROUNDS = 1200.0, 5

#: Relative gap down to which a failure of Newton's method is not the fault of rounding.
HOPE = 1e-10

# --- Sweeps over the columns of big groups (solvers/columns.py, solvers/big_sweeps.py) ---

#: Change of x within a column, relative to the penalties, at which it is left: at most, and by the change of the last
#: sweep. Columns solved ten times as roughly make three times as many sweeps.
COLUMN_PRECISION = (1e-2, 0.1)

#: Change that the first sweep is expected to make from a start that carries knowledge.
WARM_CHANGE = 0.03

#: A batch holds this part of the columns, but not fewer and not more than so many.
BATCH_PART, BATCH_FEWEST, BATCH_MOST = 40, 32, 256

#: Batches, in units of those that the last colouring gave, at which the variables are coloured anew.
RECOLOUR = 1.5

#: Part of the last estimate of the gap that the next one is at least where pairs inside a batch may be stuck, near the
#: solution; the change at which it is near.
STALLED, NEAR_CHANGE = 0.5, 1e-3

#: Multiplications for each entry of the blocks in a sweep; multiplications of factors that take as long as one of them.
SWEEP_WORK, FACTOR_WORK = 10.0, 15.0

#: Part of the gap estimated at one look at Theta at which the next one is worth its price; of the gap allowed, at which
#: the first one is where classes are compared.
NEXT_LOOK, FIRST_LOOK = 0.7, 0.5

#: Rows of covariances that are read at a time; numbers of a class that the dual point looks at at once, and the least
#: number of pieces into which that cuts them.
ROWS_AT_ONCE, DUAL_ROWS, DUAL_PIECES = 256, 2e6, 32

# --- Newton's method (solvers/big_newton.py, solvers/face.py) ---

#: Attempts at a direction, and where the last was bad; steps of conjugate gradients in each; the gain of a step, in
#: units of all gained, at which they end.
NEWTON_ROUNDS, NEWTON_THOROUGH, NEWTON_STEPS, NEWTON_TOLERANCE = 6, 12, 30, 0.03

#: Share of the entries that may cross zero before the face is chosen anew.
FEW_CROSSINGS = 2e-3

#: Part of the foretold decrease that a step must bring.
ARMIJO = 1e-3

#: Most sweeps over the columns before Newton's method begins.
NEWTON_SWEEPS = 60

#: From one working set to the next the pairs may become this many times as many; the factor by which the penalties of
#: newcomers are raised until they are no more.
GROWTH, RAISE = 8.0, 1.05

#: Most steps of conjugate gradients for one direction on a face; a step that leaves more of the gap than this ends it.
FACE_STEPS, FACE_GAIN = 200, 0.3

# --- Other methods ---

#: Times the step of proximal gradients is halved before it counts as lost to rounding.
HALVINGS = 60

#: ADMM with latent variables: iterations between two looks at the gap, over-relaxation, and how far its residuals may
#: be out of balance before rho follows.
LATENT_LOOK, LATENT_RELAXATION, LATENT_BALANCE = 10, 1.6, 3.0

# --- Gaps and proofs (certificate.py, engine/prove.py, engine/recheck.py) ---

#: Below this norm of R Theta its square bounds the gap to within a percent; above it a second factorisation gives it.
#: Blocks from the last size on, where that is expensive, make do with a sixth.
NEAR, NEAR_IF_BIG, NEAR_BIG = 0.01, 0.2, 256

#: Time of one multiplication in a dense product, in units of one in a sparse product.
DENSE_ADVANTAGE = 0.01

#: Blocks up to this size are multiplied by compiled code: in any case, and if R is sparse.
SMALL_PRODUCT, MEDIUM_PRODUCT = 16, 512

#: Entries of blocks that are looked at once more where nothing else gives a finite gap.
SAFE_ENTRIES = 2e6

#: Iterations of the attempts to prove the cuts of a dynamic screen by a sharper solution, of which one is nearly always
#: enough, and the share of the gap that each is to leave; so few groups, with less than this share of all entries, are
#: sharpened one by one.
SHARPENINGS, FEW_GROUPS, SMALL_SHARE = ((1, 1e-4), (100, 1e-7), (100, 1e-7)), 4, 0.25
