"""Many fits as one program: lanes, draws of rows and labels, paths of penalties, visits to rows."""
