"""The commands on a cluster: work in partitions, each with one worker at a time."""
