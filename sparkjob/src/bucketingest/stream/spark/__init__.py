"""All that touches Spark's internals: its JVM, session, Python workers, and failure messages."""
