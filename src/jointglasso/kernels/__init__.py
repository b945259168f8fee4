"""Arrays in, arrays out: the inner loops of the package.

`reference` holds the meaning of the kernels in plain NumPy, where that takes a few lines; the modules beside it hold
the compiled versions, numba free functions cached on disk. Nothing outside this package imports numba.
"""
