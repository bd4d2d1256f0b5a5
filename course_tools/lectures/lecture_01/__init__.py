"""What lecture 01 alone needs: its experiments, figures, data and claims."""
