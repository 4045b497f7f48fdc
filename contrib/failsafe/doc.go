package failsafe
