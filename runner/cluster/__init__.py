"""The same commands on a cluster: work cut into partitions, each of which one worker takes on at a time."""
