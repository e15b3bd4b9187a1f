package mutants

// What name servers tell clients.

var _ = add(
	Mutant{
		Name: "stale-registration-wins", Rule: "13.9.1 route convergence",
		Why:    "the registration that comes last wins the route: a deposed master that still registers takes clients back to itself",
		File:   "node/namesrv/register.go",
		Old:    "if why := stale(g, r); why != \"\" {",
		New:    "if why := stale(nil, r); why != \"\" {",
		Drills: []string{"A5"},
	},
)
