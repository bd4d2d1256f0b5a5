"""What lecture 06 alone needs: its experiments, figures, data and claims."""
