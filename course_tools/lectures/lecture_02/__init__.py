"""What lecture 02 alone needs: its experiments, figures, data and claims."""
