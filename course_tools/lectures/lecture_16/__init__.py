"""What lecture 16 alone needs: its experiments, figures, data and claims."""
