"""Compiled kernels: the inner loops of the package, functions of NumPy arrays and named tuples of arrays.

No module outside this package imports numba. Notation, used in all docstrings: K classes, p variables; Theta_k the
precision matrix of class k, W_k = Theta_k^-1, S_k its empirical covariance, w_k its weight in the likelihood,
U_k = w_k (W_k - S_k) the dual variable, lambda1 and lambda2 the penalties. A *pair* is a pair of variables (i, j); its
*entries* are Theta_k,ij in the classes that contain it, that is where i and j share a block after screening. In the
other classes the entry is screened out and zero.
"""
