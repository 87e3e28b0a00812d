"""``python -m partita.worker``: a worker of a lab, told over a pipe what to be."""

import sys

from partita.worker.serve import main

sys.exit(main())
