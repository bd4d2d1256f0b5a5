"""What lecture 03 alone needs: its experiments, figures, data and claims."""
