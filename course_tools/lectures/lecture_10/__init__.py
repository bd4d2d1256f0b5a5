"""What lecture 10 alone needs: its experiments, figures, data and claims."""
