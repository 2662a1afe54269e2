import ArgumentParser

Simulate.main()
