"""Planning on a cluster: work in partitions, and the Dask that does it."""
