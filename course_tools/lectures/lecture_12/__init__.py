"""What lecture 12 alone needs: its experiments, figures, data and claims."""
