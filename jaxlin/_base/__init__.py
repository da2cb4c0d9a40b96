"""What every layer above uses: arguments, messages, options, devices, loops, archives."""
