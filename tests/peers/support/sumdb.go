// One question on standard input, one answer on standard output: what the checksum database of Go makes of a tree,
// of proofs, of stored tiles and of notes. All judgement is in golang.org/x/mod/sumdb; nothing is decided here.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type proof struct {
	Index, Old, Size int64
	Hashes           [][]byte
	Leaf, Root, From []byte
}

type question struct {
	Entries     [][]byte
	Sizes       []int64
	Inclusion   []proof
	Consistency []proof
	Tiles       map[string][]byte
	Sign        []struct{ Key, Text string }
	Open        []struct {
		Note []byte
		Keys []string
	}
}

type answer struct {
	Roots                  [][]byte
	Inclusion, Consistency []proof
	Bad                    []string
	FromTiles              []proof
	Signed                 [][]byte
	Opened                 []string
}

// tree keeps the hashes of every record and of every complete subtree in memory.
type tree []tlog.Hash

func (t tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	found := make([]tlog.Hash, len(indexes))
	for at, index := range indexes {
		found[at] = t[index]
	}
	return found, nil
}

// stored hands out the tiles of the other side.
type stored map[string][]byte

func (s stored) Height() int                      { return 8 }
func (s stored) SaveTiles([]tlog.Tile, [][]byte) {}
func (s stored) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var found [][]byte
	for _, tile := range tiles {
		data, ok := s[strings.Replace(tile.Path(), "tile/8/", "tile/", 1)]
		if !ok {
			return nil, fmt.Errorf("no %s", tile.Path())
		}
		found = append(found, data)
	}
	return found, nil
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	var said answer
	hashes := tree{}
	for number, entry := range asked.Entries {
		added, err := tlog.StoredHashes(int64(number), entry, hashes)
		if err != nil {
			log.Fatal(err)
		}
		hashes = append(hashes, added...)
	}
	heads := map[int64]tlog.Hash{}
	for _, size := range asked.Sizes {
		head, err := tlog.TreeHash(size, hashes)
		if err != nil {
			log.Fatal(err)
		}
		heads[size] = head
		said.Roots = append(said.Roots, head[:])
	}
	for _, one := range asked.Inclusion {
		made, err := tlog.ProveRecord(one.Size, one.Index, hashes)
		if err != nil {
			log.Fatal(err)
		}
		said.Inclusion = append(said.Inclusion, proof{Index: one.Index, Size: one.Size, Hashes: bytes(made)})
		if err := tlog.CheckRecord(listed(one), one.Size, hash(one.Root), one.Index, hash(one.Leaf)); err != nil {
			said.Bad = append(said.Bad, fmt.Sprintf("inclusion of %d in %d: %v", one.Index, one.Size, err))
		}
		if asked.Tiles != nil {
			reader := tlog.TileHashReader(tlog.Tree{N: one.Size, Hash: heads[one.Size]}, stored(asked.Tiles))
			read, err := tlog.ProveRecord(one.Size, one.Index, reader)
			if err != nil {
				said.Bad = append(said.Bad, fmt.Sprintf("tiles for %d in %d: %v", one.Index, one.Size, err))
				continue
			}
			said.FromTiles = append(said.FromTiles, proof{Index: one.Index, Size: one.Size, Hashes: bytes(read)})
		}
	}
	for _, one := range asked.Consistency {
		made, err := tlog.ProveTree(one.Size, one.Old, hashes)
		if err != nil {
			log.Fatal(err)
		}
		said.Consistency = append(said.Consistency, proof{Old: one.Old, Size: one.Size, Hashes: bytes(made)})
		if err := tlog.CheckTree(listed(one), one.Size, hash(one.Root), one.Old, hash(one.From)); err != nil {
			said.Bad = append(said.Bad, fmt.Sprintf("consistency of %d with %d: %v", one.Old, one.Size, err))
		}
	}
	for _, one := range asked.Sign {
		signer, err := note.NewSigner(one.Key)
		if err != nil {
			log.Fatal(err)
		}
		signed, err := note.Sign(&note.Note{Text: one.Text}, signer)
		if err != nil {
			log.Fatal(err)
		}
		said.Signed = append(said.Signed, signed)
	}
	for _, one := range asked.Open {
		said.Opened = append(said.Opened, opened(one.Note, one.Keys))
	}
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		log.Fatal(err)
	}
}

func opened(data []byte, keys []string) string {
	var known []note.Verifier
	for _, key := range keys {
		verifier, err := note.NewVerifier(key)
		if err != nil {
			return "key: " + err.Error()
		}
		known = append(known, verifier)
	}
	read, err := note.Open(data, note.VerifierList(known...))
	if err != nil {
		return "refused: " + err.Error()
	}
	return read.Text
}

func hash(data []byte) (made tlog.Hash) {
	copy(made[:], data)
	return made
}

func listed(one proof) []tlog.Hash {
	made := make([]tlog.Hash, len(one.Hashes))
	for at, each := range one.Hashes {
		made[at] = hash(each)
	}
	return made
}

func bytes(hashes []tlog.Hash) [][]byte {
	made := [][]byte{}
	for _, each := range hashes {
		made = append(made, append([]byte(nil), each[:]...))
	}
	return made
}
