package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// What a machine of the box consists of: folders of its own in the place of the host's, and programs.
type machine struct {
	Mounts   [][2]string
	Programs []program
}

// A program that init starts, once the file After exists where it names one.
type program struct {
	Name    string
	Command []string
	After   string
}

// How long after its end a program of the list is started again.
const again = time.Second

// Process 1 of a machine of the box: it mounts /proc, starts the programs that a file lists, waits for whatever becomes
// its child, and starts a program that has ended again, as systemd does on a machine of Kubernetes. The kernel ends all
// processes of the machine with it.
func supervise(arguments []string) error {
	if len(arguments) != 2 {
		return fmt.Errorf("init wants a list of programs and a folder for logs")
	}
	if os.Getpid() != 1 {
		return fmt.Errorf("init must be process 1 of a process namespace")
	}
	text, err := os.ReadFile(arguments[0])
	if err != nil {
		return err
	}
	var made machine
	if err := json.Unmarshal(text, &made); err != nil {
		return err
	}
	if err := mountAll(made.Mounts); err != nil {
		return err
	}
	// held while a program is started: a child must not be reaped before its name is known
	var starting sync.Mutex
	running := map[int]program{}
	start := func(each program) { begin(each, arguments[1], &starting, running) }
	for _, each := range made.Programs {
		go start(each)
	}
	reap(&starting, running, start)
	return nil
}

// Mounts here are seen nowhere else. They are shared with what the machine's own containers ask to see of them.
func mountAll(mounts [][2]string) error {
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, each := range mounts {
		if err := syscall.Mount(each[0], each[1], "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
			return fmt.Errorf("mount %s on %s: %w", each[0], each[1], err)
		}
	}
	// last, so that a folder and its copy in another place do not pass each other's mounts on
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_SHARED, ""); err != nil {
		return fmt.Errorf("make mounts shared within the machine: %w", err)
	}
	return nil
}

func begin(each program, logs string, starting *sync.Mutex, running map[int]program) {
	for each.After != "" {
		if _, err := os.Stat(each.After); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	log, err := os.OpenFile(filepath.Join(logs, each.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer log.Close()
	starting.Lock()
	defer starting.Unlock()
	command := exec.Command(each.Command[0], each.Command[1:]...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		fmt.Fprintf(log, "init could not start it: %v\n", err)
		return
	}
	running[command.Process.Pid] = each
}

// Wait for children for ever. Say on standard error which program of the list has ended, and how, and start it again.
func reap(starting *sync.Mutex, running map[int]program, start func(program)) {
	ended := make(chan os.Signal, 64)
	signal.Notify(ended, syscall.SIGCHLD)
	for range ended {
		for {
			var status syscall.WaitStatus
			starting.Lock()
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			program, listed := running[pid]
			delete(running, pid)
			starting.Unlock()
			if err == syscall.EINTR {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			if listed {
				fmt.Fprintf(os.Stderr, "%s ended: %s\n", program.Name, how(status))
				time.AfterFunc(again, func() { start(program) })
			}
		}
	}
}

func how(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "killed by " + status.Signal().String()
	}
	return fmt.Sprintf("code %d", status.ExitStatus())
}

// The first process of a pod: it keeps the pod's namespaces until it is told to end.
func pause([]string) error {
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	<-told
	return nil
}

// One line of JSON on standard output.
func say(line any) {
	var text bytes.Buffer
	if json.NewEncoder(&text).Encode(line) == nil {
		os.Stdout.Write(text.Bytes())
	}
}
