"""An `apply`, from its locks to its lockfiles."""
