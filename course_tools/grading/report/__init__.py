"""Reports: results, pages for students and instructors, flags, item analysis."""
