"""Where arithmetic on whole arrays is done, apart from this processor: a CUDA device, through CuPy."""
