"""Signals as in a terminal: a suite begun in the background is born with some of them ignored."""

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
