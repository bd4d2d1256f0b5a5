"""What lecture 14 alone needs: its experiments, figures, data and claims."""
