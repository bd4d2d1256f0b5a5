"""What lecture 05 alone needs: its experiments, figures, data and claims."""
