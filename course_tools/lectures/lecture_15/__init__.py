"""What lecture 15 alone needs: its experiments, figures, data and claims."""
