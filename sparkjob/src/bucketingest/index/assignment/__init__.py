"""Which file group takes a new key: a pure function of a recorded plan, so that every task and every retry agrees."""
