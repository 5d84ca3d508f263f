package execute

import "sync"

const mostOwed = 4096

// debts are what attempts without a result cost, by leg: the next Prepare of the
// leg charges them.
type debts struct {
	mu   sync.Mutex
	owed map[string]Cost
}

func (d *debts) owe(id string, c Cost) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.owed == nil || len(d.owed) >= mostOwed {
		d.owed = map[string]Cost{}
	}
	sum := d.owed[id]
	d.owed[id] = Cost{GPUSeconds: sum.GPUSeconds + c.GPUSeconds, Bytes: sum.Bytes + c.Bytes}
}

func (d *debts) settle(id string) Cost {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.owed[id]
	delete(d.owed, id)
	return c
}
