# Rscript jgl.R ROWS FOUND K p lambda1 lambda2 rho tolerance
# ROWS: K matrices of 2p rows and p columns, doubles by columns. FOUND: K precision matrices. Prints seconds and MiB.
suppressMessages(library(JGL))
given <- commandArgs(trailingOnly = TRUE)
number <- as.numeric(given[3:8])
K <- number[1]
p <- number[2]
rows <- file(given[1], "rb")
Y <- lapply(seq_len(K), function(k) {
  matrix(readBin(rows, "double", 2 * p * p), 2 * p, p, dimnames = list(NULL, paste0("V", seq_len(p))))
})
close(rows)
before <- sum(gc(reset = TRUE)[, 2])
seconds <- system.time(
  fit <- JGL(Y, penalty = "group", lambda1 = number[3], lambda2 = number[4], rho = number[5], tol = number[6],
             weights = "equal", penalize.diagonal = FALSE, maxiter = 10000, return.whole.theta = TRUE, truncate = 0)
)[["elapsed"]]
peak <- gc()
found <- file(given[2], "wb")
for (k in seq_len(K)) writeBin(as.vector(fit$theta[[k]]), found)
close(found)
cat(seconds, sum(peak[, ncol(peak)]) - before, "\n")
