# Answers of GGMncv and EstimateGroupNetwork on fixed data: Rscript psychology_runs.R > psychology_runs.json
suppressMessages({
  library(jsonlite)
  library(GGMncv)
  library(EstimateGroupNetwork)
})
set.seed(7)
p <- 8
chain <- diag(p)
for (i in 2:p) chain[i, i - 1] <- chain[i - 1, i] <- -0.4
draw <- function(n, Theta) round(matrix(rnorm(n * p), n) %*% chol(solve(Theta)), 4)
other <- chain
other[4, 5] <- other[5, 4] <- 0
other[1, 8] <- other[8, 1] <- 0.35
samples <- list(a = draw(150, chain), b = draw(100, other))
upper <- function(M) M[upper.tri(M, diag = TRUE)] # by columns

R <- cor(samples$a)
one <- lapply(c("lasso", "scad", "mcp"), function(penalty) {
  fit <- ggmncv(R, n = 150, penalty = penalty, lambda = 0.15, LLA = TRUE, thr = 1e-12, maxit = 50,
                penalize_diagonal = FALSE, progress = FALSE)
  list(penalty = penalty, lambda = 0.15, theta = upper(fit$Theta))
})

groups <- lapply(samples, function(X) { X <- as.data.frame(X); names(X) <- paste0("x", 1:p); X })
several <- lapply(c("group", "fused"), function(penalty) {
  fit <- EstimateGroupNetwork(groups, inputType = "list.of.dataframes", penalty = penalty, method = "InformationCriterion",
                              criterion = "ebic", gamma = 0.5, nlambda1 = 20, nlambda2 = 20, optimize = FALSE, dec = 12,
                              maxiter = 20000, truncate = 1e-7, simplifyOutput = FALSE)
  list(penalty = penalty, lambda1 = fit$TuningParameters[["lambda1"]], lambda2 = fit$TuningParameters[["lambda2"]],
       theta = lapply(unname(fit$concentrationMatrix), upper), network = lapply(unname(fit$network), upper))
})
made_by <- sprintf("%s, GGMncv %s, EstimateGroupNetwork %s", R.version.string, packageVersion("GGMncv"),
                   packageVersion("EstimateGroupNetwork"))
cat(toJSON(list(made_by = made_by, samples = unname(samples), one = one, several = several), digits = 12, auto_unbox = TRUE))
