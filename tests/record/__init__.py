"""A record of what a commit of linspec answers, through public names, and the comparison of two records."""
