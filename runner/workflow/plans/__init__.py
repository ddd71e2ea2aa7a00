"""Plans of several campaigns, in this process or on a cluster, and plans as files."""
