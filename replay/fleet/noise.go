package fleet

import "math"

// stage keys a draw, so that one choice's draws do not move with another's.
type stage uint64

const (
	stageArrival stage = iota + 1
	stageFixed
	stageShare
	stageRestore
	stagePrefill
	stageDecode
	stageReport
	stageHome
	stageAffinity
	stageCoordinator
	stageBackground
	stageExplore
	stageTruth
)

// mix is a step of splitmix64 (Steele, Lea, Flood, 2014) over x and key.
func mix(x, key uint64) uint64 {
	x = (x ^ key) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// key is the hash of (seed, request or leg, path, stage).
func key(seed, id, path uint64, s stage) uint64 {
	return mix(mix(mix(mix(seed, 0x5bd1e995), id), path), uint64(s))
}

// uniform is in (0, 1).
func uniform(h uint64) float64 { return (float64(h>>11) + 0.5) / (1 << 53) }

// normal is a standard normal draw (Box and Muller).
func normal(h uint64) float64 {
	return math.Sqrt(-2*math.Log(uniform(h))) * math.Cos(2*math.Pi*uniform(mix(h, 1)))
}

// lognormal has mean 1.
func lognormal(h uint64, sigma float64) float64 {
	if sigma == 0 {
		return 1
	}
	return math.Exp(sigma*normal(h) - sigma*sigma/2)
}
