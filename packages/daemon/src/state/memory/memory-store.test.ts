import { describeStore } from '../store-conformance.ts';
import { MemoryStore } from './memory-store.ts';

describeStore('memory', { create: async (options) => new MemoryStore(options) });
