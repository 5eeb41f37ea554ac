"""The families of problems that linspec ships, a folder each: problem, law, solution and what goes with them."""
