"""What lecture 13 alone needs: its experiments, figures, data and claims."""
