"""What lecture 11 alone needs: its experiments, figures, data and claims."""
