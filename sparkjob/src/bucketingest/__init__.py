"""Streaming ingestion into Apache Hudi merge-on-read tables with a bucket index.

The layers, bottom to top: errors, spec, storage, hudi, index, write, stream, cli. Each imports only those below it.
"""
