"""Which encoder to take: runs, paired tests and costs in one answer."""
