"""What every layer above uses: checked arguments, messages, options, devices, loops, archives."""
