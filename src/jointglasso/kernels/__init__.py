"""Arrays in, arrays out: the inner loops of the package, compiled by numba and kept on disk.

Nothing outside this package imports numba.
"""
