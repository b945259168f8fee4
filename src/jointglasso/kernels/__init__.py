"""Arrays in, arrays out: the inner loops of the package.

`reference` holds each kernel's meaning in plain NumPy; the modules beside it hold the compiled versions,
numba free functions cached on disk. Nothing outside this package imports numba.
"""
