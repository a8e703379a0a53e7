"""`python -m bucketingest_operator` is `bucketingest-operator`."""

from __future__ import annotations

import sys

from bucketingest_operator.main import main

if __name__ == "__main__":
    sys.exit(main())
