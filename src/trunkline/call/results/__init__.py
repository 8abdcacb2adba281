"""Large results: kept aside for their owner, shown as a preview, read in parts."""
