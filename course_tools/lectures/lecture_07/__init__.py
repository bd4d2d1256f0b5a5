"""What lecture 07 alone needs: its experiments, figures, data and claims."""
