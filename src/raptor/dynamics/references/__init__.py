"""What comes from elsewhere: numbers that the paper printed, and slow results that come with the bundled ViT."""
