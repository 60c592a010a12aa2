"""``python -m dpstats`` is the ``dpstats`` command."""

import sys

from dpstats.cli import main

sys.exit(main())
