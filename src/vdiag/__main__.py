"""`python -m vdiag`, for an environment whose scripts are not on the path."""

import sys

from vdiag.cli import run

if __name__ == "__main__":
    sys.exit(run())
